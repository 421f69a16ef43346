# Installs the build into a fresh prefix; configures, builds and runs the outside project against it. `folder` holds it
# all and is replaced; the other variables are those of the build that is tested.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command} ended with ${result}:\n${output}")
  endif()
  set(output ${output} PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${folder})
run(${CMAKE_COMMAND} --install ${build} --prefix ${folder}/prefix)
if(EXISTS ${folder}/prefix/include/core OR NOT EXISTS ${folder}/prefix/include/lacuna/core/tensor.h)
  message(FATAL_ERROR "headers belong below include/lacuna")
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${folder}/build -G ${generator}
    -DCMAKE_PREFIX_PATH=${folder}/prefix -DCMAKE_CXX_COMPILER=${compiler} -DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}
    -DCMAKE_CXX_FLAGS=${flags})
run(${CMAKE_COMMAND} --build ${folder}/build)
run(${folder}/build/one_step)
message("${output}")
foreach(expected "loss +[0-9]" "parameters +[1-9]" "gradients +[1-9]" "optimizer +[1-9]" "saved +[1-9]")
  if(NOT output MATCHES "${expected}")
    message(FATAL_ERROR "`${expected}` matches nothing in what the outside project printed")
  endif()
endforeach()
