erase('browser:', 'browsers', A[1])
return { 'ok' }
