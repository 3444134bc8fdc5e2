/* A library to preload that does nothing. */
int whatif_test_nothing;
