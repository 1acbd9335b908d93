// Scratch memory of one task of a search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "core/memory_budget.hpp"
#include "core/parallel.hpp"
#include "point_tree/cpu/kernels.hpp"

namespace kith::point_tree {

/// What a task walks with, and what it has found so far; the entries of a budget where there is one.
template <class T>
struct TaskScratch {
  MemoryBudget* budget;
  ProgressCounter* progress = nullptr;
  std::int64_t taken = 0;  ///< queries whose entries have been taken
  std::vector<T> values;
  std::vector<std::int64_t> numbers;
  std::vector<Pending<T>> stack;
  AlignedBuffer<T> boxes;
  std::vector<std::int64_t> group_ends;
  std::vector<std::int64_t> rows;
  std::vector<T> distances;
  std::vector<Entry<T>> entries, with_infinite;
  std::vector<std::int64_t> ends, counts;

  explicit TaskScratch(MemoryBudget* of) : budget(of) {}
  TaskScratch(const TaskScratch&) = delete;
  TaskScratch& operator=(const TaskScratch&) = delete;
  ~TaskScratch() { give_entries_back(); }

  /// For the next task. Entries that a budget counts are not kept.
  void begin_again() {
    give_entries_back();
    taken = 0;
    group_ends.clear();
    with_infinite.clear();
  }

  static std::int64_t bytes(std::size_t count) { return static_cast<std::int64_t>(count * sizeof(Entry<T>)); }

  /// More room for entries. Both the old and the new ones are there while they are moved.
  /// @throws OverBudget
  void grow() {
    const std::size_t larger = std::max<std::size_t>(1024, 2 * entries.size());
    if (budget == nullptr) return entries.resize(larger);
    const std::int64_t before = bytes(entries.size());
    if (!budget->take(bytes(larger))) throw OverBudget();
    try {
      entries.resize(larger);
    } catch (...) {
      budget->give_back(bytes(larger));
      throw;
    }
    budget->give_back(before);
  }

 private:
  void give_entries_back() {
    if (budget == nullptr) return;
    budget->give_back(bytes(entries.size()));
    entries = std::vector<Entry<T>>();
  }
};

}  // namespace kith::point_tree
