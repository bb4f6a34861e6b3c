# How Unicorn is compiled: CMake reads this by .cargo/config.toml. Optimised as QEMU is by its own build; -O3, CMake's choice, takes a quarter
# longer and makes no guest faster.
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "")
