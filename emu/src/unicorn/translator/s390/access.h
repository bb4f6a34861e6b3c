/*
 * z/Architecture. Part of access.c. An operand of MVC and similar instructions may lie in two pages; the helper calls
 * probe_access for each page. It has at most 4,096 bytes.
 */
#define TARGET_LARGEST_OPERAND 4096
