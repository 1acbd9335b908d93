# Programs for an older C library than this machine's: its headers and libraries in a folder of their own, the compiler and its
# C++ library from here, which goes along. tools/wheels.sh says in the environment where that is:
#   KITH_SYSROOT         with usr/, and compat.o, which all wants that has a part of the C++ library
#   KITH_PYTHON_HEADERS  what Python's headers are included from, if any
set(sysroot $ENV{KITH_SYSROOT})
if(NOT sysroot)
  message(FATAL_ERROR "KITH_SYSROOT is not set: this is for tools/wheels.sh")
endif()
set(target x86_64-linux-gnu)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_SYSROOT ${sysroot})
set(CMAKE_LIBRARY_ARCHITECTURE ${target})
set(CMAKE_C_COMPILER gcc)
set(CMAKE_CXX_COMPILER g++)
set(CMAKE_CXX_FLAGS_INIT
  "-isystem /usr/include/c++/12 -isystem /usr/include/${target}/c++/12 -isystem /usr/include/c++/12/backward")
if(DEFINED ENV{KITH_PYTHON_HEADERS})
  string(APPEND CMAKE_CXX_FLAGS_INIT " -isystem $ENV{KITH_PYTHON_HEADERS}")
endif()
set(folders "-L${sysroot}/usr/lib/${target} -L${sysroot}/lib/${target}")
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "${folders} -static-libstdc++ -shared-libgcc ${sysroot}/compat.o")
endforeach()
set(CMAKE_CXX_STANDARD_LIBRARIES_INIT "-lpthread -ldl -lrt -lm")
# What is built for it lies in the same folder.
set(CMAKE_FIND_ROOT_PATH ${sysroot})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
