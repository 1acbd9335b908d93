// From "no answer is farther than this" to the numbers a kernel compares with, and back to tiles.
#pragma once

#include <cstdint>
#include <vector>

#include "brute_force/cpu/kernels.hpp"
#include "brute_force/real_bound.hpp"  // IWYU pragma: export
#include "codes/codes.hpp"
#include "codes/fine.hpp"
#include "codes/transform.hpp"

namespace kith::brute_force {

/// The kernel of a form for the active instruction set.
TileFunction filter_kernel(codes::CodeChoice choice);

/// That of fine codes.
FineFunction fine_kernel();

/// Tile t of the codes.
Tile tile_of(const codes::Codes& codes, std::int64_t t);

/// Encoded queries in the kernels' layout, with thresholds that only ever tighten.
class FilterQueries {
 public:
  FilterQueries(const codes::Codes& codes, std::int64_t capacity);

  /// Encodes one query (float64 values) into the next slot unless it is special or NaN; a new slot keeps
  /// everything.
  codes::RowKind add(const double* values);

  /// Of the query added last.
  codes::FineQuery fine_query(const codes::FineSpace& fine) const {
    return {codes_->space, fine, scratch_.z.data(), scratch_.error};
  }

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(queries_.size()); }

  /// Forgets all queries, for other codes of the same kind and length.
  void start_over(const codes::Codes& codes);

  /// Keep what may be at most `real` away (see real_bound).
  void set_bound(std::int64_t slot, double real);
  /// Keep nothing from now on.
  void close(std::int64_t slot);

  TileQueries view() const;

 private:
  void keep_all(std::int64_t slot);
  const codes::Codes* codes_;
  codes::Scratch scratch_;
  AlignedBuffer<unsigned char> rows_;
  std::vector<codes::QueryCode> queries_;
  std::vector<float> threshold_, h_weight_, g_weight_, e_weight_;
  std::vector<std::int32_t> integer_threshold_, bias_;
};

}  // namespace kith::brute_force
