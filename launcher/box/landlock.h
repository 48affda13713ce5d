#ifndef AGENTBOX_BOX_LANDLOCK_H
#define AGENTBOX_BOX_LANDLOCK_H
struct landlock_plan { int n; };
#endif
