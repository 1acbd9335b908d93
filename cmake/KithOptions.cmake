# Warnings and sanitizers, for our own targets only.
add_library(kith_options INTERFACE)
target_compile_options(kith_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  # The contract fixes which operations are fused: no contraction behind our back.
  -ffp-contract=off>
  # The same for the host's part of .cu files, but -Wpedantic: nvcc's own line directives are not ISO C++.
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow,-Wconversion,-Wno-sign-conversion>")
if(KITH_WARNINGS_AS_ERRORS)
  target_compile_options(kith_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(KITH_PRECOMPILED_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(kith_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # ccache asks for it
endif()
if(KITH_SANITIZE)
  target_compile_options(kith_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${KITH_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(kith_options INTERFACE -fsanitize=${KITH_SANITIZE})
endif()
