// Answers in Parquet and Arrow files, with ids of the user's: written by Python
// (python/kith/_arrow_answers.py).
#pragma once

#include <cstdint>
#include <string>

#include "common.hpp"
#include "kith/neighbors.hpp"

namespace kith::cli {

/// Columns of ids, FILE.parquet:COLUMN, and how many each has; empty for none.
struct AnswerIds {
  std::string rows;
  std::string queries;
  std::int64_t row_count = 0;
  std::int64_t query_count = 0;
};

/// Whether an answer goes to a Parquet or Arrow file, by its extension.
bool is_table_output(const std::string& output, const std::string& format);

/// Before anything is searched: a Python that can write the table is there, and so are the ids, which are
/// counted.
/// @throws InvalidArgument for ids without such an output; IoError
void check_table_answer(const std::string& output, bool is_table, AnswerIds& ids);

/// @throws InvalidArgument where there are too few ids for these rows, or another number than queries
void check_ids(const AnswerIds& ids, std::int64_t rows, std::int64_t queries);

/// Writes the file, whole or not at all. @throws IoError, Cancelled
void write_table_answer(const std::string& output, const Neighbors& answer, const AnswerIds& ids);

}  // namespace kith::cli
