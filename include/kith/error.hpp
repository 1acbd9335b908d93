/// @file
/// The exceptions Kith throws. Each message says the value, the limit and the remedy.
#pragma once

#include <stdexcept>
#include <string>

namespace kith {

/// Base of every exception thrown by Kith.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An argument is outside what the function accepts (k = 0, dimensions that differ, ...).
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// The estimated or requested memory is above the budget or above what the machine has.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// A device is missing, too old, or reported a failure.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A file is missing, unreadable, truncated, corrupt, of a foreign format, or cannot be written.
class IoError : public Error {
 public:
  using Error::Error;
};

/// The caller's cancel callback asked to stop. No output was produced.
class Cancelled : public Error {
 public:
  using Error::Error;
};

}  // namespace kith
