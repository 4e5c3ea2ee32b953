//! Asking an upstream provider who the user is.

use std::collections::BTreeMap;

use url::Url;

use crate::shape::{Limit, choice, section, section_with_default};

section! {
    /// Where and how an upstream provider says who the user is.
    pub struct UserInfo {
        /// The userinfo endpoint.
        pub endpoint_url: Url;
        /// Method of the request.
        pub http_method: HttpMethod = HttpMethod::Get;
        /// More headers of the request.
        pub additional_headers: BTreeMap<String, String> = BTreeMap::new();
        /// Which members of the answer mean what. Absent is OpenID's names.
        pub field_mapping: FieldMapping = FieldMapping::default();
    }
}

choice! {
    /// Method of the userinfo request.
    pub enum HttpMethod {
        /// GET.
        Get = "GET",
        /// POST.
        Post = "POST",
    }
}

section_with_default! {
    /// Which members of the userinfo answer mean what; the first that is not empty counts.
    pub struct FieldMapping {
        /// Who the user is.
        pub subject_fields: Vec<String> = vec!["sub".to_owned()], [Limit::MinItems(1)];
        /// What the user is called.
        pub name_fields: Vec<String> = vec!["name".to_owned()];
        /// The user's address.
        pub email_fields: Vec<String> = vec!["email".to_owned()];
    }
}
