// What the static C++ library of g++ 12 wants of a C library that is newer than the one a wheel is built for.
#include <stdint.h>
#include <sys/random.h>
#include <sys/types.h>

// glibc 2.32: whether a process has had one thread so far. "No" is always true.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

// glibc 2.36: std::random_device.
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value) {
  }
  return value;
}
