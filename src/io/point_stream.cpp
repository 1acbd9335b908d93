#include "io/point_stream.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/piece_reader.hpp"
#include "core/positioned_file.hpp"
#include "io/bytes.hpp"
#include "io/format.hpp"
#include "io/integer_points.hpp"
#include "io/source_stream.hpp"

namespace kith::io {
namespace {

class Rows final : public PointStream {
 public:
  explicit Rows(Dataset rows) : rows_(std::move(rows)) {}
  std::int64_t rows() const override { return rows_.rows(); }
  std::int64_t dim() const override { return rows_.dim(); }
  Dtype dtype() const override { return rows_.dtype(); }
  void seek(std::int64_t row) override { next_ = row; }
  void read(void* out, std::int64_t count) override {
    const DatasetView& view = rows_.view();
    const std::size_t bytes = static_cast<std::size_t>(view.dim) * size_of(view.dtype);
    if (view.contiguous()) {
      std::memcpy(out, view.row(next_), static_cast<std::size_t>(count) * bytes);
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(static_cast<std::byte*>(out) + static_cast<std::size_t>(i) * bytes, view.row(next_ + i),
                    bytes);
      }
    }
    next_ += count;
  }

 private:
  Dataset rows_;
  std::int64_t next_ = 0;
};

// An npy in either byte order, row after row or column after column.
class Npy final : public PointStream {
 public:
  Npy(const Source& source, const NpyRows& layout) : layout_(layout), file_(source.path, source.name) {}
  std::int64_t rows() const override { return layout_.rows; }
  std::int64_t dim() const override { return layout_.dim; }
  Dtype dtype() const override { return layout_.dtype; }
  void seek(std::int64_t row) override {
    // Whoever goes on elsewhere takes samples; whoever goes back to the start reads it all.
    if (row != next_) file_.expect_jumps(row != 0);
    next_ = row;
  }
  void expect(std::int64_t row, std::int64_t count) override {
    if (layout_.columns_first) return;
    const auto bytes = layout_.dim * static_cast<std::int64_t>(size_of(layout_.dtype));
    file_.expect(layout_.offset + static_cast<std::uint64_t>(row * bytes),
                 static_cast<std::uint64_t>(count * bytes));
  }
  void read(void* out, std::int64_t count) override {
    if (layout_.columns_first) {
      read_columns(static_cast<std::byte*>(out), count);
    } else {
      const std::uint64_t bytes = static_cast<std::uint64_t>(layout_.dim) * size_of(layout_.dtype);
      read_rows({&file_, layout_.offset + static_cast<std::uint64_t>(next_) * bytes, out,
                 static_cast<std::size_t>(static_cast<std::uint64_t>(count) * bytes)});
    }
    if (layout_.swap)
      swap_elements(out, static_cast<std::size_t>(count * layout_.dim), size_of(layout_.dtype));
    next_ += count;
  }

 private:
  // Much of a file at once: with several requests in flight, past the page cache where it is not in there.
  void read_rows(const Piece& rows) {
    constexpr std::size_t much = std::size_t{1} << 20U;
    if (rows.bytes < much) {
      file_.read(rows.offset, rows.to, rows.bytes);
      return;
    }
    if (!reader_) {
      file_.open_direct();
      reader_ = make_piece_reader();
    }
    reader_->read({&rows, 1});
  }

  void read_columns(std::byte* to, std::int64_t count) {
    const std::size_t element = size_of(layout_.dtype);
    const auto width = static_cast<std::size_t>(layout_.dim);
    const auto block = static_cast<std::size_t>(std::min<std::int64_t>(count, 1 << 16));
    std::vector<std::byte> column(block * element);
    for (std::int64_t done = 0; done < count; done += static_cast<std::int64_t>(block)) {
      const std::size_t here = std::min(block, static_cast<std::size_t>(count - done));
      for (std::size_t j = 0; j < width; ++j) {
        const std::uint64_t at =
            j * static_cast<std::uint64_t>(layout_.rows) + static_cast<std::uint64_t>(next_ + done);
        file_.read(layout_.offset + at * element, column.data(), here * element);
        std::byte* place = to + (static_cast<std::size_t>(done) * width + j) * element;
        for (std::size_t i = 0; i < here; ++i, place += width * element) {
          std::memcpy(place, column.data() + i * element, element);
        }
      }
    }
  }

  NpyRows layout_;
  InputFile file_;
  std::unique_ptr<PieceReader> reader_;
  std::int64_t next_ = 0;
};

// Rows that their reader maps where they lie.
class Mapped final : public SourceStream {
 public:
  Mapped(const Source& source, const Format& format, std::int64_t rows, const Dataset& first)
      : SourceStream(source, rows, first.dim(), first.dtype()), read_(format.read) {}
  void read(void* out, std::int64_t count) override {
    if (count == 0) return;
    if (next_ != came_to_) pass_.jump(near(came_to_), near(next_));
    ReadOptions options;
    options.first_row = next_;
    options.max_rows = count;
    const Dataset block = read_(source_, options);
    auto* to = static_cast<std::byte*>(out);
    for (std::int64_t i = 0; i < count; ++i, to += row_bytes()) {
      std::memcpy(to, block.view().row(i), row_bytes());
    }
    next_ += count;
    came_to_ = next_;
    pass_.reached(near(next_));
  }

 private:
  // Where a row lies, but for the header: good enough to give memory back.
  const std::byte* near(std::int64_t row) const {
    return data() + source_.size() / static_cast<std::uint64_t>(rows_) * static_cast<std::uint64_t>(row);
  }
  Dataset (*read_)(const Source&, const ReadOptions&);
  std::int64_t came_to_ = 0;
};

// A file of another format, read whole when its rows are first asked for and let go after the last of them.
class WholeFile final : public SourceStream {
 public:
  WholeFile(const Source& source, const Format& format, std::int64_t rows, const Dataset& first,
            std::uint64_t limit)
      : SourceStream(source, rows, first.dim(), first.dtype()), format_(format), limit_(limit) {}
  void seek(std::int64_t row) override {
    next_ = row;
    if (row == rows_) held_.reset();
  }
  void read(void* out, std::int64_t count) override {
    if (count == 0) return;
    if (!held_) held_ = load();
    held_->seek(next_);
    held_->read(out, count);
    next_ += count;
    if (next_ == rows_) held_.reset();
  }

 private:
  std::unique_ptr<PointStream> load() const {
    const auto bytes = static_cast<std::uint64_t>(rows_) * row_bytes();
    if (limit_ > 0 && bytes > limit_) {
      throw OutOfMemory(
          fmt::format("'{}' is {}, which is read whole: its rows take {} bytes, the limit leaves {} for "
                      "them; raise the limit, or make an npy of it (kith convert), which is read in blocks",
                      source_.name, format_.name, bytes, limit_));
    }
    const Dataset rows = format_.read(source_, {});
    if (rows.rows() != rows_ || rows.dim() != dim_ || rows.dtype() != dtype_) {
      throw bad_file(source_, "has {} rows, its header says {}; it has changed, or is corrupt", rows.rows(),
                     rows_);
    }
    return stream_rows(rows);
  }

  const Format& format_;
  std::uint64_t limit_;
  std::unique_ptr<PointStream> held_;
};

class Concatenated final : public PointStream, public IntegerPoints {
 public:
  explicit Concatenated(std::vector<std::unique_ptr<PointStream>> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part->rows());
      auto* integers = dynamic_cast<IntegerPoints*>(part.get());
      integers_.push_back(integers != nullptr && integers->integer_scale() != nullptr ? integers : nullptr);
    }
  }
  const IntegerScale* integer_scale() const override {
    const auto differs = [&](const IntegerPoints* part) {
      return part == nullptr || *part->integer_scale() != *integers_.front()->integer_scale();
    };
    if (integers_.front() == nullptr || std::ranges::any_of(integers_, differs)) return nullptr;
    return integers_.front()->integer_scale();
  }
  std::int64_t rows() const override { return ends_.back(); }
  std::int64_t dim() const override { return parts_.front()->dim(); }
  Dtype dtype() const override { return parts_.front()->dtype(); }
  void seek(std::int64_t row) override { next_ = row; }
  void expect(std::int64_t row, std::int64_t count) override {  // of rows in two of them those of the first
    const auto part = static_cast<std::size_t>(std::ranges::upper_bound(ends_, row) - ends_.begin());
    parts_[part]->expect(row - (part == 0 ? 0 : ends_[part - 1]), std::min(count, ends_[part] - row));
  }
  void read(void* out, std::int64_t count) override {
    read_parts(out, count, static_cast<std::size_t>(dim()) * size_of(dtype()),
               [&](std::size_t part, void* to, std::int64_t here) { parts_[part]->read(to, here); });
  }
  void read_integers(void* out, std::int64_t count) override {
    read_parts(out, count, 3 * sizeof(std::int32_t), [&](std::size_t part, void* to, std::int64_t here) {
      integers_[part]->read_integers(to, here);
    });
  }

 private:
  template <class Read>
  void read_parts(void* out, std::int64_t count, std::size_t bytes, const Read& read) {
    auto* to = static_cast<std::byte*>(out);
    while (count > 0) {
      const auto part = static_cast<std::size_t>(std::ranges::upper_bound(ends_, next_) - ends_.begin());
      const std::int64_t begin = part == 0 ? 0 : ends_[part - 1];
      const std::int64_t here = std::min(count, ends_[part] - next_);
      // Whoever is at its end holds no rows.
      if (part != current_) parts_[current_]->seek(parts_[current_]->rows());
      current_ = part;
      parts_[part]->seek(next_ - begin);
      read(part, to, here);
      to += static_cast<std::size_t>(here) * bytes;
      next_ += here;
      count -= here;
    }
  }

  std::vector<std::unique_ptr<PointStream>> parts_;
  std::vector<IntegerPoints*> integers_;  // the same, null where one is no such
  std::vector<std::int64_t> ends_;
  std::size_t current_ = 0;
  std::int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<PointStream> stream_rows(const Dataset& rows) {
  return std::make_unique<Rows>(rows);
}

std::unique_ptr<PointStream> open_point_stream(const std::filesystem::path& path, std::uint64_t memory_limit,
                                               std::optional<FileFormat> format,
                                               std::function<bool()> cancelled) {
  const Source source = open_source(path, std::move(cancelled));
  return stream_source(source, format_of(format ? *format : guess_format(source, source.name, true)),
                       memory_limit);
}

std::unique_ptr<PointStream> stream_npy(const Source& source, std::uint64_t /*memory_limit*/) {
  return std::make_unique<Npy>(source, npy_rows(source));
}

std::unique_ptr<PointStream> stream_source(const Source& source, const Format& format,
                                           std::uint64_t memory_limit) {
  if (format.read == nullptr) throw bad_file(source, "is {}, which holds no points", format.name);
  if (format.stream != nullptr) return format.stream(source, memory_limit);
  const std::int64_t rows = format.inspect(source).rows;
  // A header says little of the type of coordinates: that of the first row does.
  ReadOptions one;
  one.max_rows = 1;
  const Dataset first = format.read(source, one);
  if (format.mapped) return std::make_unique<Mapped>(source, format, rows, first);
  return std::make_unique<WholeFile>(source, format, rows, first, memory_limit);
}

std::unique_ptr<PointStream> concatenate(std::vector<std::unique_ptr<PointStream>> parts,
                                         std::span<const std::filesystem::path> names) {
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i]->dim() == parts[0]->dim() && parts[i]->dtype() == parts[0]->dtype()) continue;
    throw InvalidArgument(fmt::format(
        "'{}' has rows of {} {}, '{}' of {} {}; files of one cloud have the same: convert one of them",
        names[0].string(), parts[0]->dim(), name(parts[0]->dtype()), names[i].string(), parts[i]->dim(),
        name(parts[i]->dtype())));
  }
  if (parts.size() == 1) return std::move(parts[0]);
  return std::make_unique<Concatenated>(std::move(parts));
}

}  // namespace kith::io
