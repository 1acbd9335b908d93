// What reading and writing HDF5 share: identifiers, one caller at a time, element types.
#pragma once

#include <mutex>
#include <string>
#include <utility>

#include <hdf5.h>

#include "kith/dtype.hpp"

namespace kith::io {

/// One HDF5 identifier, closed with the scope.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const noexcept { return id_; }  // NOLINT(google-explicit-constructor)
  bool good() const noexcept { return id_ >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

/// The library keeps global state and prints errors: one caller at a time, printing off while in here.
class Session {
 public:
  Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

 private:
  std::scoped_lock<std::mutex> lock_;
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// The innermost reason the library gives for its last failure.
std::string reason();

/// The HDF5 type of an element in memory.
Handle memory_type(Dtype dtype);

}  // namespace kith::io
