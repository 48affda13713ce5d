#ifndef AGENTBOX_BOX_RLIMITS_H
#define AGENTBOX_BOX_RLIMITS_H
struct rlimit_plan { int n; };
#endif
