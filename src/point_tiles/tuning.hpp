// Numbers that depend on machines, not on answers.
#pragma once

#include <chrono>
#include <cstdint>

namespace kith::point_tiles::tuning {

/// Points of a tile, where memory allows: a tree over a million takes half a second on two cores, reading
/// them 5 ms.
constexpr std::int64_t tile_points = 1 << 20;
constexpr std::int64_t least_default_tile = 1 << 12;
/// What is asked for may not be less: lists of neighbours then come from many tiles each, and every tile is
/// compared with every other (100,000 points at k = 8: 0.1 s in tiles of 1000, 0.4 s of 100, 16 s of 10).
constexpr std::int64_t least_tile = 16;
/// Nor may there be more tiles of a size that was asked for: comparing them takes half a minute.
constexpr std::int64_t most_tiles = 1 << 16;
/// Of all others by their distance so many are sorted; few rows ever look at the rest.
constexpr std::int64_t sorted_tiles = 256;
/// So many tiles of the default size fit into the limit, each at what it takes while it is searched, in units
/// of its record: the tile, its tree, and an answer of some ten neighbours.
constexpr std::int64_t tiles_in_memory = 6;
constexpr std::int64_t bytes_a_record = 8;

/// Extents are at least as large as makes reading them one by one as quick as reading on.
constexpr std::int64_t extent_bytes = 256 << 10;
constexpr std::int64_t largest_extent_rows = 1 << 17;
constexpr std::int64_t fewest_buffers = 16;
/// So often, counted in fillings of all buffers, even buffers that are not full are written.
constexpr std::int64_t buffers_a_checkpoint = 2;
/// Files are read, and compared with their checksums, by blocks.
constexpr std::int64_t block_bytes = 4 << 20;
/// Rows are dealt out by blocks, each by all threads: large enough that their meetings cost nothing.
constexpr std::int64_t dealt_bytes = 32 << 20;
/// Points that splitters are chosen from, at the most and for few tiles, in runs that lie side by side in the
/// input: of the largest sample so long.
constexpr std::int64_t sample_points = 1 << 20;
constexpr std::int64_t least_sample = 1 << 18;
constexpr std::int64_t sample_of_a_tile = 1 << 12;
constexpr std::int64_t sample_run = 64;
constexpr std::int64_t sample_runs_ahead = 128;  // that the system is told of
/// Tiles that are too large are divided again, twice at most: what is left then are equal points.
constexpr int further_levels = 2;

/// Answers in the order of tiles are written by blocks of `row_block_bytes`, which are summed up while they
/// are in the cache, to at most `row_files` files of at least `least_row_file` bytes each.
constexpr std::int64_t row_block_bytes = 256 << 10;
constexpr std::int64_t row_files = 8;
constexpr std::int64_t least_row_file = 1 << 20;

/// So long answers of devices may wait in memory alone.
constexpr std::chrono::seconds longest_in_memory{60};

/// Answers that are brought into the order of the input together, at the most: while one such bucket is
/// written, the next is gathered.
constexpr std::int64_t bucket_bytes = std::int64_t{512} << 20;
/// Arrays as large as this go past the page cache: memory for that is what the system has least at hand.
constexpr std::int64_t least_direct = std::int64_t{256} << 20;

/// Tiles that are made ready at once on a device, beside the one that is answered: one is read and copied
/// while another is searched, and none of that keeps a device busy alone.
constexpr std::int64_t ahead_a_device = 5;
/// Page-locked memory that tiles on their way to a device and answers on their way back go through.
constexpr std::int64_t staging_bytes = 64 << 20;
/// What a search on a device takes beside its tile, queries and answers.
constexpr std::int64_t device_working_bytes = 48 << 20;

/// Tiles that are read together, where they are smaller.
constexpr std::int64_t ahead_bytes = 8 << 20;
/// Queries that are answered together, at the least.
constexpr std::int64_t least_block = 1 << 12;
/// Lists of a block at the most: a tile's rows come in the order of its tree, so the first of them touch the
/// whole of this memory, and nobody asks meanwhile whether to stop.
constexpr std::int64_t largest_block_bytes = std::int64_t{1} << 30;
/// Entries of a list of unknown length, for the share of memory that lists are given.
constexpr std::int64_t usual_list = 64;
/// Queries that visit a tile together.
constexpr std::int64_t visiting_block = 1 << 14;
constexpr std::int64_t least_visiting = 1 << 8;
/// Tiles are kept while one lies beside them that is yet to come: closer than this share of their side. Not
/// looked into for more tiles than this, whose pairs would take seconds.
constexpr double near_side = 0.01;
constexpr std::int64_t compared_tiles = 1 << 13;
/// Work is made safe on the disk no more often than this, and at most a share of the time goes into it.
constexpr std::chrono::milliseconds least_pause{200};
constexpr int pauses_apart = 20;
/// Of a search that has not taken so long no more than this is made safe at a time: it may be over before the
/// disk would have had all of it, which then need not be written at all.
constexpr std::chrono::seconds short_search{10};
constexpr std::int64_t most_to_save = 64 << 20;
/// Bytes of queries that wait, at the least.
constexpr std::int64_t least_waiting = 1 << 20;

}  // namespace kith::point_tiles::tuning
