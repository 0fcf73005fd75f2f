#pragma once

namespace gradus {

/// Makes SIGINT (Ctrl-C), SIGTERM, SIGHUP (the terminal closed) and SIGPIPE (nobody reads the
/// output) set interrupted() instead of ending the program, so that it can save first. A second
/// SIGINT or SIGTERM ends it at once. SIGHUP and SIGPIPE stay ignored if they were before (nohup).
void catch_interrupts();

/// True once one of these signals has arrived.
bool interrupted();

}  // namespace gradus
