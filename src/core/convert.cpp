// Checked conversion of element types; O(rows dim).
#include "kith/convert.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "core/visit_dtype.hpp"
#include "kith/error.hpp"

namespace kith {
namespace {

// Rounds once, from float64 straight to the target.
template <class T>
T nearest(double value) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    // Round to odd at float32 first, so that the second rounding cannot go wrong
    // (Boldo and Melquiond, 2008: the wider format has more than two bits to spare).
    float narrow = static_cast<float>(value);
    if (std::isfinite(narrow) && static_cast<double>(narrow) != value) {
      const bool away = std::fabs(static_cast<double>(narrow)) > std::fabs(value);
      const float truncated = away ? std::nextafter(narrow, 0.0F) : narrow;
      const float outer = std::nextafter(truncated, value > 0 ? std::numeric_limits<float>::infinity()
                                                              : -std::numeric_limits<float>::infinity());
      narrow = (std::bit_cast<std::uint32_t>(truncated) & 1U) != 0 ? truncated : outer;
    }
    if constexpr (std::is_same_v<T, float16>) {
      return to_float16(narrow);
    } else {
      return to_bfloat16(narrow);
    }
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(std::nearbyint(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
bool in_range(double value) {
  if constexpr (std::is_integral_v<T>) {
    const double rounded = std::nearbyint(value);
    return rounded >= std::numeric_limits<T>::min() && rounded <= std::numeric_limits<T>::max();
  } else {
    // NaN and infinities keep their meaning; a finite value must stay finite.
    return !std::isfinite(value) || std::isfinite(to_double(nearest<T>(value)));
  }
}

template <class To>
[[noreturn]] void refuse(double value, std::int64_t row, std::int64_t column, bool range) {
  const auto target = name(dtype_of<To>);
  if (range) {
    throw InvalidArgument(
        fmt::format("row {} column {} is {}, outside what {} can hold; use a wider element type", row, column,
                    value, target));
  }
  throw InvalidArgument(fmt::format(
      "row {} column {} is {}, which {} cannot hold exactly; use a wider element type, or round to "
      "nearest",
      row, column, value, target));
}

template <class From, class To>
void convert_rows(const DatasetView& view, To* to, Rounding rounding) {
  for (std::int64_t i = 0; i < view.rows; ++i) {
    const auto* from = static_cast<const From*>(view.row(i));
    for (std::int64_t j = 0; j < view.dim; ++j) {
      const double value = to_double(from[j]);
      if (!in_range<To>(value)) refuse<To>(value, i, j, true);
      *to = nearest<To>(value);
      if (rounding == Rounding::exact && to_double(*to) != value && !std::isnan(value)) {
        refuse<To>(value, i, j, false);
      }
      ++to;
    }
  }
}

}  // namespace

Dataset convert(const DatasetView& view, Dtype dtype, Rounding rounding) {
  validate(view, "dataset");
  if (view.dtype == dtype) return Dataset::copy(view);
  Dataset result = Dataset::allocate(dtype, view.rows, view.dim);
  visit_dtype(view.dtype, [&]<class From>(From) {
    visit_dtype(dtype, [&]<class To>(To) {
      convert_rows<From, To>(view, static_cast<To*>(result.mutable_data()), rounding);
    });
  });
  return result;
}

}  // namespace kith
