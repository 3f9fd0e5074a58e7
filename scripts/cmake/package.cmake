# A Debian package: cpack -G DEB --config build/release/CPackConfig.cmake
set(CPACK_PACKAGE_NAME stepcast)
set(CPACK_PACKAGE_VENDOR Stepcast)
set(CPACK_PACKAGE_CONTACT "Stepcast <stepcast@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Forecasts one training step of a large language model on a GPU cluster")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # packages of the libraries that the binary links
set(CPACK_STRIP_FILES ON)
set(CPACK_MONOLITHIC_INSTALL ON)
include(CPack)
