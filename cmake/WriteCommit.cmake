# Writes the commit of `source` to the header `file`, at each build; the file changes only when the commit does. Empty
# where the sources lie in no git checkout.
execute_process(COMMAND git -C ${source} describe --always --dirty --exclude=* OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(text "#pragma once\n\n#define LACUNA_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS ${file})
  file(READ ${file} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${file} "${text}")
endif()
