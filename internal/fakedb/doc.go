// Package fakedb has database/sql drivers without a server.
//
// [Null] answers at once and costs next to nothing: what is measured over it is the cost of what lies above it.
// [Script] is a driver whose optional interfaces and answers a test chooses, and which writes down every call: what a
// pool does to a driver's connections can be compared, call by call.
//
// Neither stands in for a real server where one can run: they cover drivers that no server brings along, and costs that
// a server would hide.
package fakedb
