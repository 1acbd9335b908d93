/// @file
/// Element types of datasets, and the storage-only half-precision types.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kith {

/// Element type of a dataset. All six are searched by the same contract.
enum class Dtype : std::uint8_t { f32, f16, bf16, i8, u8, f64 };
inline constexpr std::array all_dtypes = {Dtype::f32, Dtype::f16, Dtype::bf16,
                                          Dtype::i8,  Dtype::u8,  Dtype::f64};

/// IEEE 754 binary16, storage only; convert with to_float / to_float16.
struct float16 {
  std::uint16_t bits;
};

/// bfloat16 (the upper half of a binary32), storage only.
struct bfloat16 {
  std::uint16_t bits;
};

/// Size of one element in bytes.
constexpr std::size_t size_of(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::f32: return 4;
    case Dtype::f16: return 2;
    case Dtype::bf16: return 2;
    case Dtype::i8: return 1;
    case Dtype::u8: return 1;
    case Dtype::f64: return 8;
  }
  return 0;
}

/// Short name: "f32", "f16", "bf16", "i8", "u8", "f64".
std::string_view name(Dtype dtype) noexcept;

/// Parses a short name or a NumPy-style one ("float32", "uint8", ...).
/// @throws InvalidArgument when the name is none of them.
Dtype parse_dtype(std::string_view text);

/// The type distances come back in: f64 for f64 data, f32 for everything else.
constexpr Dtype distance_dtype(Dtype data) noexcept {
  return data == Dtype::f64 ? Dtype::f64 : Dtype::f32;
}

/// Conversions of the storage types; to_float is exact, to_* rounds to nearest even.
float to_float(float16 value) noexcept;
float to_float(bfloat16 value) noexcept;
float16 to_float16(float value) noexcept;
bfloat16 to_bfloat16(float value) noexcept;

/// The Dtype of a C++ element type: dtype_of<float> == Dtype::f32.
template <class T>
struct DtypeOf;
template <>
struct DtypeOf<float> {
  static constexpr Dtype value = Dtype::f32;
};
template <>
struct DtypeOf<float16> {
  static constexpr Dtype value = Dtype::f16;
};
template <>
struct DtypeOf<bfloat16> {
  static constexpr Dtype value = Dtype::bf16;
};
template <>
struct DtypeOf<std::int8_t> {
  static constexpr Dtype value = Dtype::i8;
};
template <>
struct DtypeOf<std::uint8_t> {
  static constexpr Dtype value = Dtype::u8;
};
template <>
struct DtypeOf<double> {
  static constexpr Dtype value = Dtype::f64;
};
template <class T>
inline constexpr Dtype dtype_of = DtypeOf<T>::value;

}  // namespace kith
