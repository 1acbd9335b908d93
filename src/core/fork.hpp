// What a process that was forked must know of itself.
#pragma once

namespace kith {

/// Whether this process was forked from one that Kith was loaded in. oneTBB's scheduler then still counts on
/// threads that only the parent has, and cannot be made anew: loops run on threads of our own
/// (own_threads.hpp).
bool forked() noexcept;

}  // namespace kith
