// What is made of lists of neighbours, and where it goes: k of them, their number, a plane, a mean distance;
// into memory, or into columns on disk.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kith/execution.hpp"
#include "point_tiles/columns.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/lists.hpp"

namespace kith::point_tiles {

/// Lists of k, padded with -1 and +inf, in the order of queries.
template <class T>
class NearestInMemory final : public Answers<T> {
 public:
  NearestInMemory(std::int64_t k, std::vector<std::int64_t>& rows, std::vector<T>& distances)
      : k_(k), rows_(rows), distances_(distances) {}
  void put(std::int64_t first, const Block<T>& block) override;

 private:
  std::int64_t k_;
  std::vector<std::int64_t>& rows_;
  std::vector<T>& distances_;
};

/// The same in two columns, rows and distances.
template <class T>
class NearestInColumns final : public Answers<T> {
 public:
  NearestInColumns(std::int64_t k, Columns& columns) : k_(k), columns_(columns) {}
  static std::vector<Column> columns(std::int64_t k, std::int64_t width);
  void put(std::int64_t first, const Block<T>& block) override;
  void expect_again(std::span<const std::int64_t> places) override { columns_.expect_again(places); }

 private:
  std::int64_t k_;
  Columns& columns_;
  std::vector<std::int64_t> rows_;
  std::vector<T> distances_;
};

/// How many there are, a column or a vector.
template <class T>
class Counts final : public Answers<T> {
 public:
  explicit Counts(Columns& columns) : columns_(&columns) {}
  explicit Counts(std::vector<std::int64_t>& counts) : counts_(&counts) {}
  static std::vector<Column> columns();
  void put(std::int64_t first, const Block<T>& block) override;
  void expect_again(std::span<const std::int64_t> places) override {
    if (columns_ != nullptr) columns_->expect_again(places);
  }

 private:
  Columns* columns_ = nullptr;
  std::vector<std::int64_t>* counts_ = nullptr;
};

/// A column of normals, the curvature last: [rows, dim + 1].
template <class T>
class NormalsInColumns final : public Answers<T> {
 public:
  NormalsInColumns(const Manifest& manifest, std::optional<std::vector<double>> viewpoint, Columns& columns,
                   const Execution& execution);
  static std::vector<Column> columns(std::int64_t dim, ValueWidth width);
  void reduce(const Block<T>& block, double* values) const override;
  void put_values(std::int64_t first, std::int64_t count, const double* values) override {
    columns_.put_doubles(0, first, count, values);
  }
  void put_values_at(std::span<const std::int64_t> places, const double* values) override {
    columns_.put_doubles_at(0, places, values);
  }
  void expect_again(std::span<const std::int64_t> places) override { columns_.expect_again(places); }

 private:
  const Manifest& manifest_;
  std::optional<std::vector<double>> viewpoint_;
  Columns& columns_;
  Execution execution_;
};

/// A column of mean distances, NaN without neighbours.
template <class T>
class MeanDistances final : public Answers<T> {
 public:
  explicit MeanDistances(Columns& columns) : columns_(columns) {}
  static std::vector<Column> columns();
  void reduce(const Block<T>& block, double* values) const override;
  void put_values(std::int64_t first, std::int64_t count, const double* values) override {
    columns_.put_doubles(0, first, count, values);
  }
  void put_values_at(std::span<const std::int64_t> places, const double* values) override {
    columns_.put_doubles_at(0, places, values);
  }
  void expect_again(std::span<const std::int64_t> places) override { columns_.expect_again(places); }

 private:
  Columns& columns_;
};

}  // namespace kith::point_tiles
