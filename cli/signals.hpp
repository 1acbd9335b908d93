// What ends the program from outside: lost terminals, readers that left, files cut short, limits.
#pragma once

#include "common.hpp"

namespace kith::cli {

/// Puts something in the place of a closed stdin, stdout or stderr, so that no file opened later takes its
/// number. Called first.
void keep_standard_descriptors() noexcept;

/// SIGBUS on a mapped input that was cut short: a message and the status of an I/O error. SIGPIPE: the
/// default end, without temporary files. SIGXFSZ: write() fails and says so. `common` must outlive the
/// process's threads.
void install_fault_handlers(const Common& common);

}  // namespace kith::cli
