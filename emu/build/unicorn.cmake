# How Unicorn is compiled: CMake reads this by .cargo/config.toml. -O3, CMake's choice, takes a fifth longer and makes no boot faster. Its limits for
# inlining stay: an exception of arm64 costs 3 % more without them.
set(CMAKE_C_FLAGS_RELEASE "-O2 --param max-inline-insns-auto=30 --param early-inlining-insns=14 --param inline-min-speedup=15 -DNDEBUG" CACHE STRING "")

# Code that runs while guest code is translated, or seldom. At -O2 it takes twice as long to compile, and no boot is faster.
foreach(SOURCE
        qemu/fpu/softfloat.c qemu/libdecnumber/decNumber.c qemu/tcg/tcg-op-gvec.c qemu/tcg/tcg-op-vec.c
        qemu/accel/tcg/tcg-runtime-gvec.c qemu/target/arm/sve_helper.c qemu/target/arm/translate-sve.c
        qemu/target/i386/fpu_helper.c qemu/target/i386/translate.c qemu/target/mips/dsp_helper.c qemu/target/mips/fpu_helper.c
        qemu/target/mips/msa_helper.c qemu/target/mips/translate.c qemu/target/ppc/dfp_helper.c qemu/target/ppc/fpu_helper.c
        qemu/target/ppc/int_helper.c qemu/target/ppc/translate.c qemu/target/riscv/fpu_helper.c qemu/target/riscv/translate.c
        qemu/target/s390x/fpu_helper.c qemu/target/s390x/translate.c qemu/target/s390x/vec_fpu_helper.c
        qemu/target/s390x/vec_int_helper.c qemu/target/sparc/fop_helper.c qemu/target/sparc/translate.c)
    set_source_files_properties(${SOURCE} PROPERTIES COMPILE_OPTIONS -O1)
endforeach()
# Unicorn always makes both SPARCs, and nobody runs the one of 32 bits.
cmake_language(DEFER CALL cmake_language EVAL CODE [[
if(TARGET sparc-softmmu)
    target_compile_options(sparc-softmmu PRIVATE -O0)
endif()
]])
