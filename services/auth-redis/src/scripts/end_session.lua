return { finish(A[1]) }
