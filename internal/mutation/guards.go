package main

import "slices"

// guards are all of them, in the order of the table in docs/guarantees.md.
var guards = slices.Concat(captureGuards, positionGuards, proofGuards, quickGuards, failoverGuards, statementGuards, readGuards, tokenGuards)
