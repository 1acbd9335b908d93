// Long vectors for answers, on huge pages where the system gives them: memory that is touched for the first
// time costs a fault for each page, which is most of the time that filling it takes.
#pragma once

#include <cstdint>
#include <vector>

#include <sys/mman.h>

namespace kith {

/// `count` values. @throws std::bad_alloc, std::length_error
template <class T>
std::vector<T> large_vector(std::int64_t count, T value = T{}) {
  constexpr std::uintptr_t huge_page = std::uintptr_t{2} << 20U;
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(count));
  // The whole huge pages within it; a refusal costs time only.
  const auto begin =
      (reinterpret_cast<std::uintptr_t>(values.data()) + huge_page - 1) / huge_page * huge_page;
  const auto end = reinterpret_cast<std::uintptr_t>(values.data() + count) / huge_page * huge_page;
  if (begin < end) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
  values.assign(static_cast<std::size_t>(count), value);
  return values;
}

}  // namespace kith
