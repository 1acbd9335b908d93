// Work on untrusted bytes by a library that may crash or hang on them: done in a child process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include <sys/types.h>

#include "io/format.hpp"

namespace kith::io {

/// What the child writes its results into. Every piece is one frame of the pipe.
class FrameSink {
 public:
  explicit FrameSink(int fd) : fd_(fd) {}
  void send(const void* data, std::size_t bytes);
  template <class T>
  void send(const T& value) {
    send(&value, sizeof value);
  }
  /// Lifts the time limit of the first phase (headers) to one that `bytes` of data may need.
  static void allow_time_for(std::uint64_t bytes);

 private:
  friend class Guarded;
  void frame(std::uint8_t kind, const void* data, std::size_t bytes);
  int fd_;
};

/// Runs `work` in a fork of this process and receives what it sends. Exceptions of Kith thrown by `work` come
/// out of receive(); a crash, a hang or excessive memory become an IoError. Only the calling thread exists in
/// the child: `work` must not wait for any other.
class Guarded {
 public:
  /// @throws IoError when no process can be made
  Guarded(const Source& source, const std::function<void(FrameSink&)>& work);
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded();

  /// The next frame, which must have just this many bytes.
  void receive(void* to, std::size_t bytes);
  template <class T>
  T receive() {
    T value{};
    receive(&value, sizeof value);
    return value;
  }

 private:
  void read_all(void* to, std::size_t bytes);
  [[noreturn]] void child_failed();
  const Source& source_;
  pid_t child_ = -1;
  int fd_ = -1;
};

}  // namespace kith::io
