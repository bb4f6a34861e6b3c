# How Unicorn is compiled: CMake reads this by .cargo/config.toml. -O3, CMake's choice, takes a fifth longer and makes no boot faster. Its limits for
# inlining stay: an exception of arm64 costs 3 % more without them.
set(CMAKE_C_FLAGS_RELEASE "-O2 --param max-inline-insns-auto=30 --param early-inlining-insns=14 --param inline-min-speedup=15 -DNDEBUG" CACHE STRING "")
