# How Unicorn is compiled: CMake reads this by .cargo/config.toml. -O3, CMake's choice, takes a fifth longer. Of what it adds, the loops that
# empty a TLB need the last three options; no guest is slower without the rest.
set(CMAKE_C_FLAGS_RELEASE "-O2 --param max-inline-insns-auto=30 --param early-inlining-insns=14 --param inline-min-speedup=15 -DNDEBUG" CACHE STRING "")
