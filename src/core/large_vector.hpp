// Long vectors for answers, on huge pages where the system gives them: memory that is touched for the first
// time costs a fault for each page and its zeroing, which is most of the time that filling it takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <sys/mman.h>

#include "core/parallel.hpp"
#include "kith/execution.hpp"

namespace kith {

/// `count` values. @throws Cancelled, std::bad_alloc, std::length_error
template <class T>
std::vector<T> large_vector(std::int64_t count, const Execution& execution, T value = T{}) {
  constexpr std::uintptr_t huge_page = std::uintptr_t{2} << 20U;
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(count));
  // The whole huge pages within it; a refusal costs time only.
  const auto begin =
      (reinterpret_cast<std::uintptr_t>(values.data()) + huge_page - 1) / huge_page * huge_page;
  const auto end = reinterpret_cast<std::uintptr_t>(values.data() + count) / huge_page * huge_page;
  if (begin < end) {
    const auto advise = [](std::uintptr_t from, std::uintptr_t to, int what) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      (void)::madvise(reinterpret_cast<void*>(from), to - from, what);
    };
    advise(begin, end, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE  // Linux 5.14: all threads get the pages, the vector then finds them there
    constexpr std::uintptr_t part = 8 * huge_page;
    parallel_for(execution, static_cast<std::int64_t>((end - begin + part - 1) / part), [&](std::int64_t i) {
      const std::uintptr_t from = begin + static_cast<std::uintptr_t>(i) * part;
      advise(from, std::min(from + part, end), MADV_POPULATE_WRITE);
    });
#endif
  }
  constexpr std::int64_t piece = std::int64_t{32} << 20U;  // some milliseconds
  StopRequest stop(execution);
  for (std::int64_t size = 0; size < count;) {
    size = std::min(count, size + piece / static_cast<std::int64_t>(sizeof(T)));
    values.resize(static_cast<std::size_t>(size), value);
    stop.check();
  }
  return values;
}

}  // namespace kith
