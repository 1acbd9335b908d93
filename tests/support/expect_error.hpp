// Expected errors that must say several words.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kith::test {

/// Runs `function`, which must throw E with every one of `words` in its message.
template <class E, class Function>
void expect_error(Function&& function, const std::vector<std::string>& words) {
  try {
    function();
    ADD_FAILURE() << "no exception; one with '" << (words.empty() ? "" : words.front()) << "' was expected";
  } catch (const E& error) {
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << "'" << word << "' is not in: " << error.what();
    }
  }
}

}  // namespace kith::test
