// Read by the checker and the build.
export default {};
