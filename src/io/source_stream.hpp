// What the streams of point-cloud files share: rows of one length, and rows that only walking finds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "io/format.hpp"
#include "io/point_stream.hpp"

namespace kith::io {

/// Rows of a mapped file: no more of it stays in memory than what is being read.
class SourceStream : public PointStream {
 public:
  std::int64_t rows() const override { return rows_; }
  std::int64_t dim() const override { return dim_; }
  Dtype dtype() const override { return dtype_; }
  void seek(std::int64_t row) override { next_ = row; }

 protected:
  SourceStream(const Source& source, std::int64_t rows, std::int64_t dim, Dtype dtype)
      : source_(source), rows_(rows), dim_(dim), dtype_(dtype), pass_(source_) {}
  const std::byte* data() const { return source_.bytes.data(); }
  std::size_t row_bytes() const { return static_cast<std::size_t>(dim_) * size_of(dtype_); }

  Source source_;
  std::int64_t rows_ = 0;
  std::int64_t dim_ = 0;
  Dtype dtype_ = Dtype::f32;
  FrontToBack pass_;
  std::int64_t next_ = 0;
};

/// Points of `record_bytes` each, one after the other. The caller has checked that all are in the file.
class RecordStream : public SourceStream {
 public:
  void read(void* out, std::int64_t count) final;
  void expect(std::int64_t row, std::int64_t count) final;

 protected:
  using Convert = std::function<void(const std::byte* records, std::int64_t count, std::byte* to)>;
  /// The next rows as something else, of `bytes` each.
  void read_as(void* out, std::int64_t count, std::size_t bytes, const Convert& convert);
  RecordStream(const Source& source, std::int64_t rows, Dtype dtype, std::uint64_t offset,
               std::uint64_t record_bytes)
      : SourceStream(source, rows, 3, dtype), offset_(offset), record_bytes_(record_bytes) {}
  virtual void convert(const std::byte* records, std::int64_t count, std::byte* to) const = 0;
  std::uint64_t record_bytes() const { return record_bytes_; }

 private:
  std::uint64_t offset_;
  std::uint64_t record_bytes_;
  std::int64_t came_to_ = 0;
};

/// Where a row begins.
struct RowPlace {
  std::int64_t row = 0;
  std::uint64_t offset = 0;
  std::int64_t lines = 0;  ///< before it, in text
};

/// The places of some rows, evenly spread over what has been walked through: a row is found from the last of
/// them before it. They take less than a megabyte, however many rows there are.
class RowPlaces {
 public:
  /// To be called for every row on the way.
  void passed(const RowPlace& place) {
    if (place.row == due_) add(place);
  }
  /// The last one known at or before `row`, of which the first row's must be one.
  const RowPlace& before(std::int64_t row) const;

 private:
  void add(const RowPlace& place);
  std::vector<RowPlace> places_;
  std::int64_t step_ = 256;
  std::int64_t due_ = 0;
};

/// Points whose length only reading tells, text above all.
class WalkedStream : public SourceStream {
 public:
  void read(void* out, std::int64_t count) final;

 protected:
  WalkedStream(const Source& source, std::int64_t rows, Dtype dtype) : SourceStream(source, rows, 3, dtype) {}
  void begin_at(const RowPlace& first);
  /// Reads the row at `place` and moves on to the next; `to` is null where it is only passed by.
  virtual void walk(RowPlace& place, std::byte* to) = 0;
  RowPlaces places_;

 private:
  void walk_on(std::byte* to);
  RowPlace place_;
};

/// The rows that a caller asked for, as one array.
Dataset read_rows(PointStream& stream, const Source& source, const ReadOptions& options);

}  // namespace kith::io
