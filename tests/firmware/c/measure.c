/* What was measured, and by which names. */
#include "measure.h"

#define MEASURED_NAME(name) "bufabi_" #name,
const char *const measured_names[FUNCTIONS] = {MEASURED_FUNCTIONS(MEASURED_NAME)};
uint32_t measured_stack[FUNCTIONS];
