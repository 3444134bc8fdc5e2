/* visits - visits every kind of point that whatif.h has. C and C++. */
#include "whatif.h"

static void request(void)
{
    WHATIF_BEGIN("request");
    WHATIF_END("request");
}

int main(void)
{
    int i;
    for (i = 0; i < 3; i++) {
        WHATIF_PROGRESS_NAMED("round");
        if (i == 0)
            WHATIF_PROGRESS_NAMED("round");
        else
            WHATIF_PROGRESS;
        request();
    }
    return 0;
}
