#include "point_tiles/tile_buffers.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "core/fixed_size.hpp"
#include "core/parallel.hpp"

namespace kith::point_tiles {

TileBuffers::TileBuffers(std::size_t tiles, std::int64_t capacity, std::size_t row_bytes, std::size_t boxless,
                         Box box, const Execution& execution)
    : capacity_(capacity),
      row_bytes_(row_bytes),
      boxless_(boxless),
      box_(std::move(box)),
      execution_(execution),
      memory_(make_memory(static_cast<std::int64_t>(tiles))) {
  for (std::size_t t = 0; t < tiles; ++t) {
    buffers_.push_back(buffer_in(memory_, static_cast<std::int64_t>(t)));
  }
}

// Rows of the block by tile, ascending within one.
void TileBuffers::sort(const RowBlock& block) {
  constexpr std::int64_t least_part = 1 << 12;
  const std::int64_t parts =
      std::clamp<std::int64_t>(block.count / least_part, 1, resolve_threads(execution_));
  const auto tiles = static_cast<std::int64_t>(buffers_.size());
  const auto first_of = [&](std::int64_t part) { return block.count * part / parts; };
  const auto place_of = [&](std::int64_t part, std::int64_t row) -> std::uint32_t& {
    const std::int64_t tile = block.tiles[row];
    return counts_[static_cast<std::size_t>(part * tiles + tile)];
  };
  counts_.assign(static_cast<std::size_t>(parts * tiles), 0);
  order_.resize(static_cast<std::size_t>(block.count));
  parallel_for(execution_, parts, [&](std::int64_t p) {
    for (std::int64_t i = first_of(p); i < first_of(p + 1); ++i) ++place_of(p, i);
  });
  starts_.clear();
  std::uint32_t end = 0;
  for (std::int64_t t = 0; t < tiles; ++t) {
    starts_.push_back(end);
    for (std::int64_t p = 0; p < parts; ++p) {
      std::uint32_t& count = counts_[static_cast<std::size_t>(p * tiles + t)];
      end += std::exchange(count, end);
    }
  }
  starts_.push_back(end);
  parallel_for(execution_, parts, [&](std::int64_t p) {
    for (std::int64_t i = first_of(p); i < first_of(p + 1); ++i) {
      order_[place_of(p, i)++] = static_cast<std::uint32_t>(i);
    }
  });
}

// What is to be done, and which extents come of it: those in the order of the rows that fill them.
void TileBuffers::plan(const OpenSegment& segment, std::vector<NewExtent>& made) {
  struct Filled {
    std::uint32_t row;
    std::size_t task;
  };
  std::vector<Filled> filled;
  tasks_.clear();
  for (std::size_t tile = 0; tile < buffers_.size(); ++tile) {
    std::int64_t at = starts_[tile];
    const std::int64_t end = starts_[tile + 1];
    if (at == end) continue;
    // The buffer's next rows, also those behind the extents: its task does both.
    Task buffered{tile, at, end};
    const std::int64_t head = capacity_ - buffers_[tile].rows;
    if (end - at >= head) {
      filled.push_back({order_[static_cast<std::size_t>(at + head - 1)], tasks_.size()});
      at += head;
      const std::size_t its = tasks_.size();
      tasks_.push_back(buffered);
      while (end - at >= capacity_) {
        filled.push_back({order_[static_cast<std::size_t>(at + capacity_ - 1)], tasks_.size()});
        tasks_.push_back({tile, at, at + capacity_, -1, false});
        at += capacity_;
      }
      tasks_[its].tail = at;
    } else {
      buffered.tail = at;
      tasks_.push_back(buffered);
    }
  }
  std::sort(filled.begin(), filled.end(), [](const Filled& a, const Filled& b) { return a.row < b.row; });
  std::uint64_t offset = segment.end;
  for (const Filled& next : filled) {
    tasks_[next.task].extent = static_cast<std::int64_t>(made.size());
    NewExtent& extent = made.emplace_back();
    extent.tile = tasks_[next.task].tile;
    extent.extent.segment = segment.number;
    extent.extent.offset = offset;
    extent.extent.rows = capacity_;
    offset += bytes(capacity_);
  }
}

TileBuffers::Memory TileBuffers::make_memory(std::int64_t buffers) const {
  const std::int64_t rows = buffers * capacity_;
  return {AlignedBuffer<std::byte>(rows * static_cast<std::int64_t>(row_bytes_)),
          AlignedBuffer<std::int64_t>(rows)};
}

TileBuffers::Buffer TileBuffers::buffer_in(Memory& memory, std::int64_t i) const {
  return {memory.coordinates.data() + static_cast<std::size_t>(i * capacity_) * row_bytes_,
          memory.numbers.data() + i * capacity_};
}

void TileBuffers::append(Buffer& to, std::int64_t begin, std::int64_t end, const RowBlock& block) {
  assert(to.rows + end - begin <= capacity_);  // what lies behind is the next tile's
  with_fixed_size(row_bytes_, [&](auto bytes) {
    std::byte* at = to.coordinates + static_cast<std::size_t>(to.rows) * bytes;
    std::int64_t* number = to.numbers + to.rows;
    for (std::int64_t i = begin; i < end; ++i, at += bytes) {
      const std::uint32_t row = order_[static_cast<std::size_t>(i)];
      std::memcpy(at, block.coordinates.data() + row * bytes, bytes);
      *number++ = block.numbers[row];
    }
  });
  to.rows += end - begin;
}

void TileBuffers::write(const Buffer& from, NewExtent& made, OpenSegment& segment) const {
  const auto count = static_cast<std::size_t>(from.rows);
  const std::size_t coordinates = count * row_bytes_;
  Extent& extent = made.extent;
  extent.rows = from.rows;
  extent.hash = extent_hash(from.coordinates, coordinates, from.numbers, count);
  if (made.tile != boxless_) made.bounds = box_(from.coordinates, from.rows);
  segment.file.write(extent.offset, from.coordinates, coordinates);
  segment.file.write(extent.offset + coordinates, from.numbers, count * sizeof(std::int64_t));
  segment.file.start_writing(extent.offset, bytes(from.rows));
}

void TileBuffers::run(const Task& task, const RowBlock& block, OpenSegment& segment,
                      std::vector<NewExtent>& made) {
  const auto extent = [&]() -> NewExtent& { return made[static_cast<std::size_t>(task.extent)]; };
  if (!task.buffered) {
    Memory memory = make_memory(1);
    Buffer whole = buffer_in(memory, 0);
    append(whole, task.begin, task.end, block);
    write(whole, extent(), segment);
    return;
  }
  Buffer& buffer = buffers_[task.tile];
  if (task.extent >= 0) {
    append(buffer, task.begin, task.begin + capacity_ - buffer.rows, block);
    write(buffer, extent(), segment);
    buffer.rows = 0;
  }
  append(buffer, task.tail, task.end, block);
}

std::vector<NewExtent> TileBuffers::deal(const RowBlock& block, OpenSegment& segment) {
  std::vector<NewExtent> made;
  sort(block);
  plan(segment, made);
  // What is to be written first, so that nobody begins with it last.
  std::stable_partition(tasks_.begin(), tasks_.end(), [](const Task& task) { return task.extent >= 0; });
  parallel_for(execution_, static_cast<std::int64_t>(tasks_.size()),
               [&](std::int64_t i) { run(tasks_[static_cast<std::size_t>(i)], block, segment, made); });
  segment.end += static_cast<std::uint64_t>(made.size()) * bytes(capacity_);
  return made;
}

std::vector<NewExtent> TileBuffers::flush(OpenSegment& segment) {
  std::vector<NewExtent> made;
  for (std::size_t tile = 0; tile < buffers_.size(); ++tile) {
    if (buffers_[tile].rows == 0) continue;
    NewExtent& extent = made.emplace_back();
    extent.tile = tile;
    extent.extent.segment = segment.number;
    extent.extent.offset = segment.end;
    segment.end += bytes(buffers_[tile].rows);
  }
  parallel_for(execution_, static_cast<std::int64_t>(made.size()), [&](std::int64_t i) {
    NewExtent& extent = made[static_cast<std::size_t>(i)];
    Buffer& buffer = buffers_[extent.tile];
    write(buffer, extent, segment);
    buffer.rows = 0;
  });
  return made;
}

}  // namespace kith::point_tiles
