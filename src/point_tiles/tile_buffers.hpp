// The buffers that rows are dealt to, one a tile, and how all threads deal a block of rows at once.
//
// The rows of a block are sorted by tile, counted first (a counting sort, whose parts are the threads'). From
// then on tiles have nothing to do with each other: a tile's rows go to the end of its buffer, a buffer that
// is full becomes an extent, and what fills extents from end to end never sees the buffer. Extents lie in the
// segment in the order of the rows that filled them, which is known before any of them is written: the bytes
// are those of rows dealt one after the other, for every number of threads and size of block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "core/positioned_file.hpp"
#include "kith/execution.hpp"
#include "point_tiles/records.hpp"

namespace kith::point_tiles {

/// A segment that is being written.
struct OpenSegment {
  OutputFile file;
  std::int64_t number = 0;
  std::uint64_t end = 0;
};

/// Rows that were read and told apart.
struct RowBlock {
  AlignedBuffer<std::byte> coordinates;
  AlignedBuffer<std::int64_t> numbers;
  AlignedBuffer<std::int32_t> tiles;  ///< of each row
  std::int64_t first = 0, count = 0;

  RowBlock(std::int64_t rows, std::size_t row_bytes)
      : coordinates(rows * static_cast<std::int64_t>(row_bytes)), numbers(rows), tiles(rows) {}
};

/// An extent that has just been written.
struct NewExtent {
  std::size_t tile = 0;
  Extent extent;
  Bounds bounds;
};

class TileBuffers {
 public:
  /// The box of some rows, one after the other.
  using Box = std::function<Bounds(const std::byte* rows, std::int64_t count)>;

  /// @param capacity rows of a buffer
  /// @param boxless the tile whose rows have no box
  /// @param box is asked by many threads
  TileBuffers(std::size_t tiles, std::int64_t capacity, std::size_t row_bytes, std::size_t boxless, Box box,
              const Execution& execution);

  /// @return extents, in the order in which they lie in the segment @throws IoError, Cancelled
  std::vector<NewExtent> deal(const RowBlock& block, OpenSegment& segment);
  /// All that is left, tile after tile.
  std::vector<NewExtent> flush(OpenSegment& segment);

 private:
  struct Buffer {
    std::byte* coordinates;
    std::int64_t* numbers;
    std::int64_t rows = 0;
  };
  struct Memory {
    AlignedBuffer<std::byte> coordinates;
    AlignedBuffer<std::int64_t> numbers;
  };
  // Rows of a tile that one thread deals: entries [begin, end) of the sorted block.
  struct Task {
    std::size_t tile = 0;
    std::int64_t begin = 0, end = 0;
    std::int64_t extent = -1;  // that they fill
    bool buffered = true;      // through the tile's buffer; else they are an extent, whole
    std::int64_t tail = 0;     // where those begin that stay in the buffer; what is between is others'
  };

  void sort(const RowBlock& block);
  void plan(const OpenSegment& segment, std::vector<NewExtent>& made);
  void run(const Task& task, const RowBlock& block, OpenSegment& segment, std::vector<NewExtent>& made);
  void append(Buffer& to, std::int64_t begin, std::int64_t end, const RowBlock& block);
  Memory make_memory(std::int64_t buffers) const;
  Buffer buffer_in(Memory& memory, std::int64_t i) const;
  void write(const Buffer& from, NewExtent& made, OpenSegment& segment) const;
  std::uint64_t bytes(std::int64_t rows) const {
    return static_cast<std::uint64_t>(rows) * (row_bytes_ + sizeof(std::int64_t));
  }

  std::int64_t capacity_;
  std::size_t row_bytes_;
  std::size_t boxless_;
  Box box_;
  const Execution& execution_;
  Memory memory_;  // of all buffers, side by side
  std::vector<Buffer> buffers_;
  std::vector<std::uint32_t> order_;   // rows of the block by tile
  std::vector<std::uint32_t> counts_;  // of each part and tile, then where they go
  std::vector<std::int64_t> starts_;   // of each tile in order_, and the end
  std::vector<Task> tasks_;
};

}  // namespace kith::point_tiles
