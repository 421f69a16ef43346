// Tests for a GPU compare steps to the bit, so that none may measure plans of products between them: there is no cache
// folder that would keep them.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>

int main(int count, char** arguments) {
  for (const char* const variable : {"XDG_CACHE_HOME", "HOME"}) ::unsetenv(variable);
  return doctest::Context(count, arguments).run();
}
