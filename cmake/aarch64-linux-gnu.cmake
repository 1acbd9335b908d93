# 64-bit ARM from another Debian machine: g++-aarch64-linux-gnu and the libraries of the architecture arm64. What is built runs under
# qemu-user where that is installed.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
find_program(KITH_QEMU_AARCH64 qemu-aarch64)
if(KITH_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${KITH_QEMU_AARCH64})
endif()
