// The `lacuna` command.
#include "apps/command.h"

int main(int argc, char** argv) { return lacuna::apps::run_command_line(argc, argv); }
