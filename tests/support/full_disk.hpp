// A full disk, played by a limit on the size of files.
#pragma once

#include <cerrno>
#include <csignal>
#include <system_error>

#include <sys/resource.h>

namespace kith::test {

/// While it lives, no file of this process grows beyond so many bytes: writing more fails.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    struct rlimit tight {};
    if (::getrlimit(RLIMIT_FSIZE, &old_) != 0) throw std::system_error(errno, std::generic_category());
    tight.rlim_cur = bytes;
    tight.rlim_max = old_.rlim_max;
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    if (::setrlimit(RLIMIT_FSIZE, &tight) != 0) throw std::system_error(errno, std::generic_category());
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    (void)::setrlimit(RLIMIT_FSIZE, &old_);
    (void)std::signal(SIGXFSZ, handler_);
  }

 private:
  struct rlimit old_ {};
  void (*handler_)(int) = SIG_DFL;
};

}  // namespace kith::test
