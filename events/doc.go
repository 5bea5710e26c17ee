// Package events is the catalogue of what is told to Convoke and by it.
package events
