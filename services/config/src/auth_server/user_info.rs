//! Userinfo request to an upstream provider.

use std::collections::BTreeMap;

use url::Url;

use crate::config_value::{Constraint, keyword_enum, section, section_with_default};

section! {
    /// Endpoint and field mapping that determine the user's identity.
    pub struct UserInfo {
        /// The userinfo endpoint.
        pub endpoint_url: Url;
        /// Method of the request.
        pub http_method: HttpMethod = HttpMethod::Get;
        /// Additional headers of the request.
        pub additional_headers: BTreeMap<String, String> = BTreeMap::new();
        /// Mapping of the response's members. Absent uses the names of OpenID Connect.
        pub field_mapping: FieldMapping = FieldMapping::default();
    }
}

keyword_enum! {
    /// Method of the userinfo request.
    pub enum HttpMethod {
        /// GET.
        Get = "GET",
        /// POST.
        Post = "POST",
    }
}

section_with_default! {
    /// Mapping of userinfo members. Of several members, the first that is not empty is used.
    pub struct FieldMapping {
        /// Members with the user's unique identifier.
        pub subject_fields: Vec<String> = vec!["sub".to_owned()], [Constraint::MinItems(1)];
        /// Members with the user's display name.
        pub name_fields: Vec<String> = vec!["name".to_owned()];
        /// Members with the user's email address.
        pub email_fields: Vec<String> = vec!["email".to_owned()];
    }
}
