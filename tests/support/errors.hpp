// Messages of expected errors.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <string_view>

namespace kith::test {

/// The message of the Error that `call` throws; fails the test when it throws nothing or another type.
template <class Expected, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception was thrown: " << error.what();
    return {};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline testing::AssertionResult contains(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' does not say '" << part << "'";
}

}  // namespace kith::test
