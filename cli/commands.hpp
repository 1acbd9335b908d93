// Every sub-command, in the order the help lists them.
#pragma once

#include <CLI/CLI.hpp>

#include "common.hpp"

namespace kith::cli {

void add_knn(CLI::App& app, Common& common);
void add_build(CLI::App& app, Common& common);
void add_shard(CLI::App& app, Common& common);
void add_search(CLI::App& app, Common& common);
void add_insert(CLI::App& app, Common& common);
void add_tune(CLI::App& app, Common& common);
void add_all_knn(CLI::App& app, Common& common);
void add_radius(CLI::App& app, Common& common);
void add_normals(CLI::App& app, Common& common);
void add_outliers(CLI::App& app, Common& common);
void add_evaluate(CLI::App& app, Common& common);
void add_codes(CLI::App& app, Common& common);
void add_import(CLI::App& app, Common& common);
void add_export(CLI::App& app, Common& common);
void add_convert(CLI::App& app, Common& common);
void add_info(CLI::App& app, Common& common);
void add_verify(CLI::App& app, Common& common);
void add_generate(CLI::App& app, Common& common);
void add_devices(CLI::App& app, Common& common);
void add_bench(CLI::App& app, Common& common);
void add_ladder(CLI::App& app, Common& common);
void add_report(CLI::App& app, Common& common);
void add_completion(CLI::App& app, Common& common);
void add_man(CLI::App& app, Common& common);
void add_help(CLI::App& app, Common& common);

}  // namespace kith::cli
