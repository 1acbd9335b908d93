// From a query to its code and the scalars its thresholds are made of.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "codes/codes.hpp"
#include "codes/transform.hpp"

namespace kith::codes {

namespace {

// u8 and i8 queries of u8 and i8 rows: exact.
QueryCode encode_integers(const CodeSpace& space, const RowKernels& kernels, Scratch& s, const double* values,
                          signed char* out) {
  QueryCode code;
  const bool is_unsigned = space.dtype == Dtype::u8;
  if (space.choice.form == Form::absolute) {  // bytes as the rows have them, padding included
    const int offset = is_unsigned ? 0 : 128;
    std::memset(out, offset, static_cast<std::size_t>(space.query_stride_bytes()));
    for (std::int64_t i = 0; i < space.dim; ++i) {
      out[i] = static_cast<signed char>(static_cast<unsigned char>(static_cast<int>(values[i]) + offset));
    }
    return code;
  }
  std::int64_t sum = 0;
  double squares = 0;
  for (std::int64_t i = 0; i < space.dim; ++i) {
    const int v = static_cast<int>(values[i]);
    out[i] = static_cast<signed char>(is_unsigned ? v - 128 : v);
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  code.bias = is_unsigned ? 0 : static_cast<std::int32_t>(-128 * sum);
  code.norm_sq = squares;
  if (space.choice.form == Form::integer) return code;
  if (squares == 0) {
    code.kind = RowKind::special;
    return code;
  }
  double error = 0;
  (void)to_code_space(space, kernels, s.y.data(), largest_query_entry, error);
  code.scale = 1 / std::sqrt(squares);
  code.norm_sq = 1;
  code.norm = 1 + 0x1p-40;
  code.residual = error * 4 + 0x1p-45;
  return code;
}

// What the offset of the rows' bytes adds to the sum of a lane, to be taken off it: the lower and the upper
// half of a word a block. Only the lowest 16 bits count.
void lane_biases(const CodeSpace& space, const signed char* codes, char* out) {
  for (std::int64_t block = 0; block < space.blocks(); ++block) {
    std::uint32_t lanes[2] = {};
    const std::int64_t end = std::min(space.steps(), (block + 1) * narrow_block);
    for (std::int64_t i = block * narrow_block * 4; i < end * 4; ++i) {
      lanes[i % 4 / 2] -= static_cast<std::uint32_t>(narrow_offset * codes[i]);
    }
    const std::uint32_t word = (lanes[0] & 0xFFFFU) | lanes[1] << 16U;
    std::memcpy(out + block * 4, &word, sizeof word);
  }
}

}  // namespace

QueryCode encode_query(const CodeSpace& space, const double* values, void* out, Scratch& s) {
  const std::int64_t dim = space.dim;
  const RowKernels& kernels = row_kernels();
  std::copy(values, values + dim, s.y.begin());
  std::memset(out, 0, static_cast<std::size_t>(space.query_stride_bytes()));
  if (space.raw_integers()) return encode_integers(space, kernels, s, values, static_cast<signed char*>(out));

  QueryCode code;
  double error = 0;
  switch (to_code_space(space, kernels, s.y.data(), largest_query_entry, error)) {
    case RowKind::nan: code.kind = RowKind::nan; return code;
    case RowKind::special: code.kind = RowKind::special; return code;
    case RowKind::regular: break;
  }
  const double norm_sq = kernels.sum_of_squares(s.y.data(), dim);
  if (space.metric == Metric::cosine && norm_sq == 0) {
    code.kind = RowKind::special;  // a tie with every row: the order is by index alone
    return code;
  }
  reduce(space, kernels, s, error);
  s.error = error;
  const std::int64_t width = space.values();
  const Form form = space.choice.form;
  if (space.choice.filter == Filter::int8) {
    code.scale = quantize(space, kernels, s, query_range(space));
    std::memcpy(out, s.bytes.data(), s.bytes.size());
    std::int64_t sum = 0;
    const auto* bytes = static_cast<const signed char*>(out);
    for (std::int64_t i = 0; i < width; ++i) sum += bytes[i];
    if (form != Form::absolute) code.bias = static_cast<std::int32_t>(-row_range(space).offset * sum);
    if (space.choice.narrow) lane_biases(space, bytes, static_cast<char*>(out) + s.bytes.size());
  } else {
    kernels.round_to_float(s.coded(), width, static_cast<float*>(out), s.decoded.data());
  }
  const double decoded_sq = kernels.sum_of_squares(s.decoded.data(), width);
  code.norm = std::sqrt(decoded_sq) * (1 + sum_error);
  code.norm_sq = form == Form::triangle ? decoded_sq : norm_sq;
  if (form == Form::absolute) {
    code.residual = kernels.residual_absolute(s.coded(), s.decoded.data(), width) * (1 + sum_error) +
                    error * std::sqrt(static_cast<double>(width)) * 1.001;
  } else {
    code.residual =
        std::sqrt(kernels.residual_squared(s.coded(), s.decoded.data(), width)) * (1 + sum_error) + error;
  }
  return code;
}

}  // namespace kith::codes
