# Programs for an older C library than this machine's: its headers and libraries in a folder of their own, the compiler and its
# C++ library from here, which goes along. tools/wheels.sh makes the folder and says in the environment where it is:
#   KITH_SYSROOT   with usr/, and what wants to be linked to all that has a part of the C++ library, compat.o
#   KITH_TARGET    x86_64-linux-gnu
#   KITH_CXX_HEADERS   folders of the C++ library's headers, by semicolons
set(sysroot $ENV{KITH_SYSROOT})
set(target $ENV{KITH_TARGET})
if(NOT sysroot OR NOT target)
  message(FATAL_ERROR "KITH_SYSROOT and KITH_TARGET are not set: this is for tools/wheels.sh")
endif()
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR ${target})
set(CMAKE_SYSROOT ${sysroot})
set(CMAKE_LIBRARY_ARCHITECTURE ${target})
set(CMAKE_C_COMPILER ${target}-gcc)
set(CMAKE_CXX_COMPILER ${target}-g++)
set(headers "")
foreach(folder $ENV{KITH_CXX_HEADERS})
  string(APPEND headers " -isystem ${folder}")
endforeach()
set(CMAKE_CXX_FLAGS_INIT "${headers}")
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
