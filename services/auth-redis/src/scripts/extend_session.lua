return { keep(A[1], tonumber(A[2])) and 1 or 0 }
