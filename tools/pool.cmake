file(GLOB pool_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/pool/*.cc)
xoe_program(xoe-pool SOURCES ${pool_sources} LINK xoe::pool xoe::pool_page xoe::pool_slurm xoe::pool_vsphere xoe::remote xoe::command_line Threads::Threads)
xoe_optimise_little(xoe-pool)
